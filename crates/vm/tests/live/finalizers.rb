# More objects with finalizers than a table of a class has entries; every other one is taken back.
$keep = Array.new(140_000) { Object.new }
$keep.each { |object| ObjectSpace.define_finalizer(object, proc {}) }
$keep.each_with_index { |object, index| ObjectSpace.undefine_finalizer(object) if index.odd? }
GC.disable
ready
