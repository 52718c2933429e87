# SPDX-License-Identifier: Apache-2.0
# What a wheel holds beside the Python files: the library under its soname, the plugins beside it, the command, and
# the libraries that the command needs beyond those of every Linux. pyproject.toml asks for this component only.
#
# The command finds its libraries by $ORIGIN, and they find one another by its old-style run path, which also holds
# for what they need themselves. Nothing of GLib comes into a Python process. libcrypto is not among them: Python
# has one loaded, of which libtutti takes the same copy by its name. A second one under that name would break the
# ssl of a Python that was built with a newer one, and its fixes would come with new wheels only.
set(of_the_system "^lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc[+][+]|crypto)[.]so|^ld-linux|^linux-vdso")

install(TARGETS tutti-python LIBRARY DESTINATION tutti COMPONENT wheel)
set_target_properties(tutti PROPERTIES VERSION 0) # a wheel keeps no symbolic links
install(TARGETS tutti LIBRARY DESTINATION tutti/lib COMPONENT wheel NAMELINK_SKIP)
foreach(plugin shm tcp trace check mpi mpi-abi mpi-openmpi mpi-mpich)
    if(TARGET tutti-${plugin})
        install(TARGETS tutti-${plugin} LIBRARY DESTINATION tutti/lib/tutti/0 COMPONENT wheel)
    endif()
endforeach()
set_target_properties(tutti-command PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
target_link_options(tutti-command PRIVATE -Wl,--disable-new-dtags)
install(TARGETS tutti-command RUNTIME DESTINATION tutti/bin COMPONENT wheel)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION tutti COMPONENT wheel)
install(FILES ${torch_sources} DESTINATION tutti/torch/source COMPONENT wheel)
install(FILES ${headers} DESTINATION tutti/include/tutti COMPONENT wheel)

# Each library comes with its licence, where Debian says whose it is.
set(command ${PROJECT_BINARY_DIR}/bin/tutti)
install(CODE "
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/tutti/lib\")
    file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \"${command}\"
         RESOLVED_DEPENDENCIES_VAR libraries PRE_EXCLUDE_REGEXES \"${of_the_system}|^libtutti\")
    foreach(library IN LISTS libraries)
        get_filename_component(name \${library} NAME)
        get_filename_component(file \${library} REALPATH)
        file(COPY_FILE \${file} \${folder}/\${name})
        execute_process(COMMAND dpkg-query --search \"*/\${name}\" OUTPUT_VARIABLE package ERROR_QUIET)
        string(REGEX REPLACE \"[:,].*\" \"\" package \"\${package}\")
        if(package AND EXISTS /usr/share/doc/\${package}/copyright)
            file(MAKE_DIRECTORY \${folder}/licenses)
            file(COPY_FILE /usr/share/doc/\${package}/copyright \${folder}/licenses/\${package})
        endif()
    endforeach()
" COMPONENT wheel)
