# SPDX-License-Identifier: Apache-2.0
# Headers, library, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS tutti EXPORT tutti-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/api/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/api/tutti/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti)
# What README says, with what it refers to.
foreach(text README.md CHANGELOG.md SECURITY.md LICENSE)
    install(FILES ${PROJECT_SOURCE_DIR}/${text} DESTINATION ${CMAKE_INSTALL_DOCDIR})
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING PATTERN "*.md" PATTERN man EXCLUDE)
file(RELATIVE_PATH TUTTI_HEADERS_FROM_DOCS /${CMAKE_INSTALL_DOCDIR} /${CMAKE_INSTALL_INCLUDEDIR})
configure_file(${PROJECT_SOURCE_DIR}/cmake/InstallDocuments.cmake.in
               ${PROJECT_BINARY_DIR}/InstallDocuments.cmake @ONLY)
install(EXPORT tutti-targets NAMESPACE tutti:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tutti-config.cmake.in
    ${PROJECT_BINARY_DIR}/tutti-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tutti-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tutti-config.cmake
              ${PROJECT_BINARY_DIR}/tutti-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

# Said from where the file lies, so that an installed tree may be moved.
file(RELATIVE_PATH TUTTI_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
