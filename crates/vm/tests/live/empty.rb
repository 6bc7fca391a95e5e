# Frees whole pages, and tells how many of them the VM has kept without slots.
garbage = Array.new(200_000) { Object.new }
garbage = nil
GC.start
GC.disable
puts GC.stat.fetch(:heap_empty_pages, 0)
ready
