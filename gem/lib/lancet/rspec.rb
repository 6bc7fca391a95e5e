# frozen_string_literal: true

require "rspec/expectations"
require_relative "../lancet"

# For RSpec:
#
#   expect { … }.to allocate_at_most(10).objects
#   expect { … }.to allocate_at_most(3).of(String)
#   expect { … }.not_to leak
#
# An expectation that fails within the block fails the test, and is no answer of the matcher's.
RSpec::Matchers.define :allocate_at_most do |most|
  supports_block_expectations

  chain(:objects) { @type = nil }
  chain(:of) { |type| @type = type }

  match(notify_expectation_failures: true) do |block|
    @found = Lancet.allocations(&block)
    (@type ? @found.of_type(@type) : @found.count) <= most
  end

  failure_message do
    made = @type ? @found.of_type(@type) : @found.count
    "#{made} #{@type || "objects"} were made, at most #{most} allowed:\n#{@found}"
  end
end

RSpec::Matchers.define :leak do
  supports_block_expectations

  match(notify_expectation_failures: true) do |block|
    @found = Lancet.leaks(&block)
    !@found.empty?
  end

  failure_message { "nothing is left over from each run" }
  failure_message_when_negated { "objects are left over from each run:\n#{@found.join("\n")}" }
end
