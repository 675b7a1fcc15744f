// Exists only because the target that owns the precompiled header needs a source file.
