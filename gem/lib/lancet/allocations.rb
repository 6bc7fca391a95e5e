# frozen_string_literal: true

require_relative "block"

module Lancet
  # The objects that a stretch of the program has made, dead or alive, in all of its threads.
  class Allocations
    # Their rows: line, type, `born`, and of these `live`; the most first.
    attr_reader :rows

    # What the block has returned.
    attr_reader :result

    def self.of
      block = Block.new(births: true)
      begin
        result = yield
        new(block.rows, result)
      ensure
        block.drop
      end
    end

    def initialize(rows, result)
      @rows = rows.select { |row| row.born.positive? }.sort_by { |row| [-row.born, row.to_s] }
      @result = result
    end

    # How many objects the block has made.
    def count
      rows.sum(&:born)
    end

    # How many objects of one type the block has made.
    def of_type(type)
      rows.select { |row| row.type == type.to_s }.sum(&:born)
    end

    def to_s
      rows.map { |row| format("%7d %s", row.born, row) }.join("\n")
    end
  end
end
