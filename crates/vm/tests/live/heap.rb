# Every object `each_object` shows, then every slot `dump_all` knows.
class Plain; end
keep = Array.new(1000) { Plain.new } + Array.new(100) { "x" * 500 } + Array.new(100) { Class.new }
class << Plain; class << self; end; end
keep.first(50).each(&:singleton_class)
%w[set stringio time json].each { |library| require library }
GC.start
GC.disable
all = []
ObjectSpace.each_object { |object| all << object }
ready
all.each { |object| (place = address(object)) && puts(place) }
ready
# 2.7 writes through a FILE of C's and flushes it only when it is closed: unclosed, the last line is torn.
dump = ObjectSpace.dump_all(output: :file)
dump.close
File.foreach(dump.path) { |line| puts(line) }
File.unlink(dump.path)
ready
