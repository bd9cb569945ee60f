# Writes OUTPUT with one row {"<op>.<backend>", R"yaml(...)yaml"} for each file of PIPELINES
# (kernels/<op>/<backend>.yaml).
set(text "")
foreach(path IN LISTS PIPELINES)
  get_filename_component(backend ${path} NAME_WE)
  get_filename_component(folder ${path} DIRECTORY)
  get_filename_component(op ${folder} NAME)
  file(READ ${path} yaml)
  string(APPEND text "{\"${op}.${backend}\", R\"yaml(${yaml})yaml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
