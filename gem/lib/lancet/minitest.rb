# frozen_string_literal: true

require_relative "../lancet"

module Lancet
  # For Minitest and test-unit: `include Lancet::Assertions`.
  module Assertions
    # The block makes at most so many objects: in all, or of each of these types.
    #
    #   assert_allocations(10) { … }
    #   assert_allocations(String => 3, Array => 1) { … }
    def assert_allocations(limit, message = nil, &block)
      found = Lancet.allocations(&block)
      limits = limit.is_a?(Hash) ? limit : { nil => limit }
      limits.each do |type, most|
        made = type ? found.of_type(type) : found.count
        assert made <= most, "#{message && "#{message}: "}#{made} #{type || "objects"} were made, at most #{most} allowed:\n#{found}"
      end
      found.result
    end

    # No line leaves objects behind in each of several runs of the block.
    def refute_leaks(runs: Leaks::RUNS, &block)
      found = Lancet.leaks(runs: runs, &block)
      assert found.empty?, "objects are left over from each run:\n#{found.join("\n")}"
    end

    # The block makes at most so many calls of a C function. Where calls may be missing nobody knows, and the test fails.
    def assert_calls(limit, function, **options, &block)
      found = Lancet.calls(function, **options, &block)
      assert found.size <= limit, "#{function} was called #{found.size} times, at most #{limit} allowed"
      assert found.lost.empty?, "whether #{function} was called at most #{limit} times is not known:\n#{found.lost.join("\n")}"
      warn "lancet: there is no function #{function} in this process: is that its name?" if found.nowhere?
      found.result
    end
  end
end
