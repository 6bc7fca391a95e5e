require 'memprof'
Memprof.start
require "stringio"
StringIO.new
Memprof.stats
GC.start
$stderr.puts "--- after GC.start"
Memprof.stats
Memprof.stop
