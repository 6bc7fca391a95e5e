# frozen_string_literal: true

require_relative "block"

module Lancet
  # Lines of which objects survive every run of a block. One run may leave something behind (a cache, a constant, what the last
  # call still has on the stack); what each of them leaves behind is a leak.
  class Leaks
    RUNS = 5
    # A line and a type, and how many of its objects each run has left.
    Leak = Struct.new(:path, :line, :type, :left) do
      def to_s
        "#{path || "__null__"}:#{line}:#{type} (#{left.join(", ")} of #{left.size} runs)"
      end
    end

    # Runs the block once to fill caches, and then so often.
    def self.of(runs)
      raise ArgumentError, "leaks show in two runs or more" if runs < 2

      yield
      blocks = []
      begin
        runs.times do
          blocks << Block.new
          yield
        end
        leaks(blocks.map { |block| survivors(block) })
      ensure
        blocks.each(&:drop)
      end
    end

    # The living of a block and of those after it, by row.
    def self.survivors(block)
      block.rows(collect: true).to_h { |row| [[row.path, row.line, row.type], row.live] }
    end

    def self.leaks(survivors)
      found = survivors.first.keys.map do |place|
        counts = survivors.map { |rows| rows.fetch(place, 0) } << 0
        Leak.new(*place, counts.each_cons(2).map { |with, after| with - after })
      end
      found.select { |leak| leak.left.all?(&:positive?) }.sort_by { |leak| [-leak.left.sum, leak.to_s] }
    end
    private_class_method :survivors, :leaks
  end
end
