require_relative "test_helper"

# The examples of the post that introduced memprof in 2009, as a user writes them.
class AnnouncementTest < LancetTest
  FOLDER = File.expand_path("announcement", __dir__)
  # The same lines counted by Ruby itself, which is told where each object is made.
  ORACLE = <<~'RUBY'
    require "memprof"; require "objspace"; ObjectSpace.trace_object_allocations_start
    require "stringio"
    StringIO.new
    ObjectSpace.trace_object_allocations_stop
    found = Hash.new(0)
    ObjectSpace.each_object(BasicObject) do |object|
      path = ObjectSpace.allocation_sourcefile(object)
      found["#{path}:#{ObjectSpace.allocation_sourceline(object)}:#{object.class}"] += 1 if path
    end
    found.each { |row, count| puts "#{count} #{row}" }
  RUBY

  def rows(text)
    text.lines.to_h do |line|
      count, row = line.split(" ", 2)
      [row.strip.sub("#{FOLDER}/", ""), Integer(count)]
    end
  end

  def test_lines_11_and_7
    _, err, code = ruby(File.join(FOLDER, "post2009.rb"))
    assert_equal 0, code, err
    assert_equal ["   1000 #{FOLDER}/post2009.rb:11:String", "    100 #{FOLDER}/post2009.rb:7:String"], err.lines.map(&:chomp)
  end

  def test_stringio_before_and_after_a_collection
    # A collection before the first stats, which may come at any time, would take the garbage that is to be seen there.
    options = ["--disable-gems", "-r", File.join(FOLDER, "quiet.rb")]
    _, err, code = ruby(File.join(FOLDER, "stringio.rb"), options: options)
    assert_equal 0, code, err
    before, after = err.split("--- after GC.start\n").map { |text| rows(text) }
    assert_equal [1, 1], [before["stringio.rb:4:StringIO"], before["stringio.rb:4:String"]], err
    oracle = Tempfile.create(["stringio", ".rb"]) do |file|
      file.write(ORACLE)
      file.close
      out, complaint, = ruby(file.path, options: options)
      assert_empty complaint
      # The requires are on line 2 there, and on line 3 of the example.
      rows(out.gsub(/#{file.path}:(\d+)/) { "stringio.rb:#{$1.to_i + 1}" })
    end
    assert_equal oracle, before
    # What was garbage is gone, and the classes stay. What a call has left on the stack may live.
    assert_operator after.fetch("stringio.rb:4:StringIO", 0), :<=, 1, err
    assert_operator after.values.sum, :<, before.values.sum, err
    assert_equal 1, after.find { |row, _| row.end_with?("stringio.so:0:Class") }&.last, err
  end
end
