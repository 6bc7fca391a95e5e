require_relative "test_helper"
require "tmpdir"

# What memprof's README and its specs promise, on today's Ruby.
class MemprofTest < LancetTest
  def teardown
    Memprof.stop
  end

  def test_stats_are_written_to_a_file
    text = written do |file|
      Memprof.start
      @kept = "abc"
      Memprof.stats(file)
    end
    assert_equal "      1 #{__FILE__}:#{__LINE__ - 3}:String\n", text
  end

  def test_stats_go_to_standard_error_otherwise
    _, err = capture_io do
      Memprof.start
      @kept = "abc"
      Memprof.stats
    end
    assert_equal "      1 #{__FILE__}:#{__LINE__ - 3}:String\n", err
  end

  def test_stats_may_be_asked_for_again
    lines = []
    first, second = Array.new(2) do
      written do |file|
        Memprof.start
        @kept = [@kept]
        lines << __LINE__ - 1
        Memprof.stats(file)
      end
    end
    row = "#{__FILE__}:#{lines.first}:Array"
    assert_equal "      1 #{row}\n", first
    # What this test makes in between is tracked too.
    assert_includes second, "      2 #{row}\n"
  end

  def test_stats_bang_forgets
    one = written do |file|
      other = file + ".2"
      Memprof.start
      @kept = []
      Memprof.stats!(file)
      Memprof.stats(other)
      @rest = File.read(other)
      File.delete(other)
    end
    assert_equal "      1 #{__FILE__}:#{__LINE__ - 6}:Array\n", one
    assert_equal "", @rest
  end

  def test_track_is_start_stats_and_stop
    text = written { |file| Memprof.track(file) { @kept = "abc" } }
    assert_equal "      1 #{__FILE__}:#{__LINE__ - 1}:String\n", text
    assert_raises(RuntimeError) { Memprof.stats }
  end

  # The README's: floats have been no objects since 2.0, unless they are too wide for a word.
  def test_track_of_three_types
    text = written do |file|
      without_collections do
        Memprof.track(file) do
          100.times { @a = "abc" }
          100.times { @b = 1.23 + 1 }
          100.times { @c = 1.0e300 * 1.5 }
          100.times { @d = Module.new }
        end
      end
    end
    rows = text.lines.map { |line| line.split(":").values_at(-2, -1).join(":").chomp.prepend(line[0, 7].strip, " ") }
    line = __LINE__ - 8
    assert_equal ["100 #{line + 3}:Module", "100 #{line + 2}:Float", "100 #{line}:String"], rows.first(3), text
    refute_match(/:#{line + 1}:/, text)
  end

  def test_what_dies_is_gone_after_a_collection
    before = nil
    without_collections do
      Memprof.start
      12.times { "abc" }
      10.times { $last = "abc" }
      before = written { |file| Memprof.stats(file) }
    end
    GC.start
    after = written { |file| Memprof.stats(file) }
    line = __LINE__ - 6
    assert_match(/^     12 #{Regexp.escape(__FILE__)}:#{line}:String$/, before)
    assert_match(/^     10 #{Regexp.escape(__FILE__)}:#{line + 1}:String$/, before)
    # What the last call of a block has left on the stack may live.
    assert_match(/^      [12] #{Regexp.escape(__FILE__)}:#{line + 1}:String$/, after)
  end

  def test_not_started
    [-> { Memprof.stats }, -> { Memprof.stats! }, -> { Memprof.dump }].each do |call|
      assert_match(/Memprof\.start/, assert_raises(RuntimeError, &call).message)
    end
    refute Memprof.stop
  end

  def test_started_twice
    assert Memprof.start
    refute Memprof.start
    assert Memprof.stop
    refute Memprof.stop
  end

  def test_a_block_is_needed
    assert_raises(ArgumentError) { Memprof.track }
  end

  def test_a_file_that_cannot_be_opened
    Memprof.start
    error = assert_raises(ArgumentError) { Memprof.stats("/no/such/folder/file") }
    assert_match(/unable to open output file/, error.message)
  end

  def test_dump_has_an_object_a_line
    text = written do |file|
      Memprof.dump(file) do
        @kept = ["dump me", 1.0e300 * 1.5]
      end
    end
    objects = text.lines.map { |line| JSON.parse(line) }
    line = __LINE__ - 4
    assert_equal %w[array float string], objects.map { |object| object["type"] }.sort
    assert_equal [[__FILE__, line]], objects.map { |object| object.values_at("file", "line") }.uniq
    string = objects.find { |object| object["type"] == "string" }
    assert_equal ["String", 7], string.values_at("class", "length")
    assert_match(/\A0x\h+\z/, string["_id"])
    # Secrets stay where they are unless they are asked for.
    refute_includes text, "dump me"
  end

  # A float that is none of the flonums, which are no objects.
  def test_dump_of_what_is_tracked
    text = written do |file|
      Memprof.start
      @kept = 1.0e300 * 1.5
      Memprof.dump(file, contents: true)
    end
    object = JSON.parse(text.lines.find { |line| line.include?('"float"') })
    assert_equal [__FILE__, __LINE__ - 4, "1.5e+300"], object.values_at("file", "line", "data")
  end

  def test_dump_with_contents
    text = written { |file| Memprof.dump(file, contents: true) { @kept = "dump me" } }
    assert_equal '"dump me"', JSON.parse(text)["data"]
  end

  # Memprof's own spec looks for a text that it has made.
  def test_dump_all
    @kept = "dump out the entire" + " heap"
    Dir.mktmpdir do |folder|
      file = "#{folder}/ours.heap"
      assert_nil Memprof.dump_all(file)
      assert_equal 0o600, File.stat(file).mode & 0o777
      refute_includes File.binread(file), @kept
      assert_equal file, Lancet.heap(file, contents: true)
      out, err, status = Open3.capture3(Lancet::Program.path, "heap", file, "--path", "MemprofTest", "--json")
      assert_predicate status, :success?, err
      assert_match(/MemprofTest/, out)
    end
    assert_match(/no.such/, assert_raises(Lancet::Error) { Lancet.heap("/no/such/folder/file") }.message)
  end

  def test_blocks_in_one_another
    outer = inner = nil
    outer = written do |file|
      Memprof.track(file) do
        @a = "outer"
        inner = written { |other| Memprof.track(other) { @b = "inner" } }
        @c = "outer"
      end
    end
    line = __LINE__ - 4
    assert_equal "      1 #{__FILE__}:#{line}:String\n", inner
    [line - 1, line, line + 1].each { |at| assert_match(/ 1 .*:#{at}:String$/, outer) }
  end

  def test_track_within_start
    Memprof.start
    @a = "abc"
    inner = written { |file| Memprof.track(file) { @b = "abc" } }
    assert_equal 1, inner.lines.size
    assert_match(/:#{__LINE__ - 3}:String$/, written { |file| Memprof.stats(file) })
  end

  # What the block raises or throws comes out of it, and nothing is tracked any more.
  def test_exceptions_and_throw
    assert_raises(ZeroDivisionError) { Memprof.track { 1 / 0 } }
    assert_equal 7, (catch(:out) { Memprof.track { throw :out, 7 } })
    assert_equal 5, Memprof.track { break 5 }
    assert_raises(RuntimeError) { Memprof.stats }
    assert_equal 1, written { |file| Memprof.track(file) { @kept = "abc" } }.lines.size
  end

  def test_exit_and_abort_within
    { "exit 7" => 7, "exit! 8" => 8, "abort" => 1, "raise 'x'" => 1 }.each do |ending, wanted|
      _, err, code = ruby(script: "require 'lancet'; Memprof.track { #{ending} }")
      assert_equal wanted, code, "#{ending}: #{err}"
    end
  end

  def test_objects_of_other_threads_count
    text = written do |file|
      Memprof.track(file) { Thread.new { @kept = "abc" }.join }
    end
    assert_match(/      1 #{Regexp.escape(__FILE__)}:#{__LINE__ - 2}:String$/, text)
  end

  def test_many_threads_at_once
    texts = Array.new(4) do
      Thread.new do
        10.times { written { |file| Memprof.track(file) { "abc".dup } } }
        :done
      end
    end
    assert_equal [:done] * 4, texts.map(&:value)
  end

  # There are numbers for 1,023 blocks; then the agent comes anew.
  def test_blocks_without_end
    1100.times { Memprof.start && Memprof.stop }
    text = written { |file| Memprof.track(file) { @kept = "abc" } }
    assert_equal "      1 #{__FILE__}:#{__LINE__ - 1}:String\n", text
  end

  def test_too_many_blocks_in_one
    Memprof.start
    error = assert_raises(Lancet::Error) { 1100.times { Memprof.track(File::NULL) { nil } } }
    assert_match(/1,023/, error.message)
    assert Memprof.stop
    assert Memprof.start
  end

  def test_fibers
    text = written do |file|
      Memprof.track(file) { Fiber.new { @kept = "abc" }.resume }
    end
    assert_match(/      1 #{Regexp.escape(__FILE__)}:#{__LINE__ - 2}:String$/, text)
  end
end
