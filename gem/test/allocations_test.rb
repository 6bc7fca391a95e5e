require_relative "test_helper"
require "lancet/minitest"

class AllocationsTest < LancetTest
  include Lancet::Assertions

  LEFT = []

  def work
    10.times { |number| [number.to_s, { number => "x" + "y" }] }
    Struct.new(:a).new(1)
  end

  def test_what_was_made_dead_or_alive
    found = Lancet.allocations do
      7.times { "abc".dup }
      @kept = Array.new(3) { Object.new }
      :answer
    end
    assert_equal :answer, found.result
    line = __LINE__ - 5
    rows = found.rows.to_h { |row| [[row.line, row.type], row.born] }
    # `dup` of a literal: the literal and its copy.
    assert_equal({ [line, "String"] => 14, [line + 1, "Object"] => 3, [line + 1, "Array"] => 1 }, rows)
    assert_equal [18, 14, 3], [found.count, found.of_type(String), found.of_type("Object")]
  end

  def test_as_many_as_the_vm_counts
    3.times { work }
    found = Lancet.allocations { work }
    GC.disable
    before = GC.stat(:total_allocated_objects)
    work
    made = GC.stat(:total_allocated_objects) - before
    GC.enable
    # The VM counts its own objects too (IMEMO, ICLASS).
    assert_operator found.count, :<=, made
    assert_operator found.count, :>=, 50
  end

  def test_each_line_as_ruby_counts_it
    3.times { work }
    theirs = allocated_in(__FILE__) { work }
    assert_equal theirs, by_line_and_type(Lancet.allocations { work }.rows, __FILE__)
  end

  def test_assert_allocations
    assert_equal 4, assert_allocations(2) { "abc".dup && 4 }
    assert_allocations(String => 2, Array => 0) { "abc".dup }
    error = assert_raises(Minitest::Assertion) { assert_allocations(1) { "abc".dup } }
    assert_match(/\A2 objects were made, at most 1 allowed:\n +2 .*:#{__LINE__ - 1}:String/, error.message)
    error = assert_raises(Minitest::Assertion) { assert_allocations({ "String" => 1 }) { "abc".dup } }
    assert_match(/2 String/, error.message)
  end

  def test_a_leak_is_named
    found = Lancet.leaks do
      LEFT << Object.new
      "not kept".dup
    end
    assert_equal [[__FILE__, __LINE__ - 3, "Object"]], (found.map { |leak| leak.to_a.first(3) })
    assert_equal [1] * 4, found.first.left.first(4)
    # What the last run has left on the stack may be one more.
    error = assert_raises(Minitest::Assertion) { refute_leaks(runs: 3) { LEFT << +"kept" } }
    assert_match(/:#{__LINE__ - 1}:String \(1, 1, [12] of 3 runs\)/, error.message)
  ensure
    LEFT.clear
  end

  def test_what_is_kept_once_is_no_leak
    cache = nil
    refute_leaks do
      cache ||= Array.new(10) { Object.new }
      cache[0] = Object.new
      "not kept".dup
    end
  end
end
