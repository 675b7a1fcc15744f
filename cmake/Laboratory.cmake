# libadaact_lab: data, models and training on top of libadaact. Its dependencies are not the core's.
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(Threads REQUIRED)
# Without it a WebP file is an error that says so.
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
find_package(WebP)
set(ADAACT_PICTURE_LIBRARIES JPEG::JPEG PNG::PNG)
if(WebP_FOUND)
  list(APPEND ADAACT_PICTURE_LIBRARIES WebP::webp)
endif()
include(cmake/Nvjpeg.cmake)
if(ADAACT_WITH_NVJPEG)
  list(APPEND ADAACT_PICTURE_LIBRARIES "${NVJPEG_LIBRARY}")
endif()

adaact_room_sources(ADAACT_DATA_SOURCES data)
adaact_room_sources(ADAACT_LAB_SOURCES layers models train report sweep experiments)
include(cmake/EmbedConfigs.cmake)
adaact_embed_configs(ADAACT_EMBEDDED_CONFIGS)
include(cmake/EmbedPageScript.cmake)
adaact_embed_page_script(ADAACT_EMBEDDED_PAGE_SCRIPT)

# The objects of data/ are those of src/CMakeLists.txt.
add_library(adaact_lab ${ADAACT_LAB_SOURCES} ${ADAACT_EMBEDDED_CONFIGS}
  ${ADAACT_EMBEDDED_PAGE_SCRIPT} $<TARGET_OBJECTS:adaact_data>)
add_library(adaact::lab ALIAS adaact_lab)
target_include_directories(adaact_lab PRIVATE src)
target_include_directories(adaact_lab SYSTEM PRIVATE
  $<TARGET_PROPERTY:nlohmann_json::nlohmann_json,INTERFACE_INCLUDE_DIRECTORIES>)
# Its loops over numbers are those of the data; all others are LibTorch's and adaact's.
target_compile_options(adaact_lab PRIVATE ${ADAACT_LITTLE_OPTIMIZATION})
target_compile_definitions(adaact_lab PRIVATE ADAACT_VERSION="${PROJECT_VERSION}")
target_link_libraries(adaact_lab
  PUBLIC adaact
  PRIVATE ZLIB::ZLIB ${ADAACT_PICTURE_LIBRARIES} Threads::Threads)
set_target_properties(adaact_lab PROPERTIES
  EXPORT_NAME lab
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  DEFINE_SYMBOL "")
adaact_use_precompiled_header(adaact_lab FILE_BY_FILE)
adaact_unite_by_room(adaact_lab)
