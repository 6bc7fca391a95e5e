# frozen_string_literal: true

module Lancet
  # It could not be done; the message says what, why, and what to do.
  class Error < StandardError; end

  # What was counted is gone: the companion has ended, or its agent has left. The next call starts anew.
  class Lost < Error; end

  # The companion has not answered in time. It may still be at work, so the same is not asked for a second time.
  class Silent < Lost; end
  private_constant :Silent
end
