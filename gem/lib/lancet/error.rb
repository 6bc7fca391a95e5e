# frozen_string_literal: true

module Lancet
  # It could not be done; the message says what, why, and what to do.
  class Error < StandardError; end

  # The companion has ended: what it had counted is gone, and the next call starts another one.
  class Lost < Error; end
end
