# frozen_string_literal: true

require_relative "companion"

module Lancet
  # A line and a type: objects that were made there in a block, and those of them that live.
  Row = Struct.new(:path, :line, :type, :live, :born) do
    # As memprof wrote it; `__null__:0` is a place that the VM does not name.
    def to_s
      "#{path || "__null__"}:#{line}:#{type}"
    end
  end

  # A stretch of the program's run whose objects are told apart from all others. Those of all threads are counted.
  class Block
    # With `births` it can be asked what was made, dead or alive, for the price of a count at its beginning.
    def initialize(births: false)
      @companion, begun = Companion.begin("\"do\":\"track\",\"births\":#{births}")
      @number = begun[:block]
    end

    # Its objects by line and type, the most first, after a garbage collection if `collect` says so. What is made until this
    # returns, and by the block that is given the rows, is not counted.
    def rows(collect: false)
      paused do
        found = []
        say_lost(@companion.ask("\"do\":\"count\",\"block\":#{@number},\"collect\":#{collect}") do |record|
          found << Row.new(*record.values_at(:path, :line, :type, :live, :born))
        end)
        found.sort_by! { |row| [row.live, row.to_s] }.reverse!
        block_given? ? yield(found) : found
      end
    end

    # Each of its living objects, as a Hash.
    def each_object(contents: false, &block)
      paused { say_lost(@companion.ask("\"do\":\"objects\",\"block\":#{@number},\"contents\":#{contents}", &block)) }
    end

    # What was made until now is not counted any more.
    def forget
      @companion.ask("\"do\":\"forget\",\"block\":#{@number}")
    end

    # Ends the block: nothing is counted for it any more.
    def end
      @companion.ask("\"do\":\"end\",\"block\":#{@number}")
    end

    # Ends the block where that is not what the program is about: what it raises, or how it ends, is not replaced by an error of ours.
    def drop
      self.end unless over?
    rescue Error
      nil
    end

    # Fails if it is gone, with its companion or with the agent.
    def check
      @companion.ask("\"do\":\"resume\",\"block\":#{@number}")
    end

    # Its companion is known to have ended, or to be another process's.
    def over?
      @companion.over?
    end

    # It is a parent's: this process is the child of a fork.
    def forked?
      @companion.forked?
    end

    private

    # What could not be counted is told, once for each count.
    def say_lost(result)
      result[:lost]&.each { |text| warn "lancet: #{text}" }
    end

    # The companion tracks nothing from a count on until we say so.
    def paused
      @companion.synchronize do
        yield
      ensure
        resume
      end
    end

    # One that is gone has said so already, or says so when it is asked next.
    def resume
      check unless over?
    rescue Lost
      nil
    end
  end
end
