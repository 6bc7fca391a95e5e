require 'memprof'
@blah = Hash.new([])

Memprof.start

100.times {
  @blah[1] << "aaaaa"
}

1000.times {
   @blah[2] << "bbbbb"
}
Memprof.stats
Memprof.stop
