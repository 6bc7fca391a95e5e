# frozen_string_literal: true

require "fiber"

module Lancet
  # Which traces count what a thread does now. A thread runs fibers in turns, and a trace is of the fiber that has begun it: it is paused when another one
  # comes, but for one that this fiber itself has resumed, for which it waits as for a method (an Enumerator's, say). Ruby tells of each switch, so a program
  # without fibers pays nothing for it, and one with fibers only while there are traces.
  module Fibers
    # What a fiber says of itself, and not what the program has made of that.
    TOLD = Fiber.instance_method(:to_s)
    # Ruby from 3.0 on says of a fiber that is not running whether it waits for another one.
    WAITS = "by resuming"
    TELLS = RUBY_VERSION.to_i >= 3
    private_constant :TOLD, :WAITS

    # For each thread that has some: the innermost of the traces that count what it does; those around it are its `below`.
    @running = {}.compare_by_identity
    # For each such thread that has gone over to another fiber since: that one.
    @at = {}.compare_by_identity
    # By fiber, its thread and the traces that wait for it, the innermost first.
    @paused = {}.compare_by_identity
    @hears = false
    @switches = TracePoint.new(:fiber_switch) { switched }

    class << self
      # A trace counts from now on what this fiber does.
      def begin(trace)
        thread = Thread.current
        trace.below = @running[thread]
        trace.fiber = Fiber.current
        @running[thread] = trace
        hear unless @hears
      end

      # A trace has ended, in whatever fiber.
      def end(trace)
        thread = Thread.current
        return put_away(trace) unless @running[thread].equal?(trace)

        below = trace.below
        below ? @running[thread] = below : @running.delete(thread)
      end

      private

      def hear
        @hears = true
        @switches.enable
      end

      # Ends one that is not the innermost of this thread: it is paused, or has been begun before others and ends before them.
      def put_away(trace)
        _, waiting = @paused[trace.fiber]
        return leave_out(trace) unless waiting&.delete(trace)

        @paused.delete(trace.fiber) if waiting.empty?
      end

      def leave_out(trace)
        @running.keys.each do |thread|
          traces = around(@running[thread])
          run(thread, traces - [trace]) if traces.include?(trace)
        end
      end

      # This thread has gone over to another fiber, which runs this.
      def switched
        thread = Thread.current
        fiber = Fiber.current
        innermost = @running[thread]
        return leave unless innermost || @paused.key?(fiber)

        Thread.handle_interrupt(Trace::LATER) { change(thread, fiber, innermost) }
      end

      def change(thread, fiber, innermost)
        running = around(innermost)
        last = innermost && (@at[thread] || innermost.fiber)
        stay, go = running.partition { |trace| trace.fiber.equal?(fiber) } unless innermost && waits?(last)
        go&.each do |trace|
          trace.pause
          (@paused[trace.fiber] ||= [thread, []]).last << trace
        end
        _, come = @paused.delete(fiber)
        come ||= []
        come.each(&:resume)
        run(thread, come + (stay || running))
        @running.key?(thread) ? @at[thread] = fiber : @at.delete(thread)
      end

      # A trace and those around it.
      def around(trace)
        found = []
        while trace
          found << trace
          trace = trace.below
        end
        found
      end

      # Has these traces count what a thread does, the innermost first.
      def run(thread, traces)
        traces.each_with_index { |trace, at| trace.below = traces[at + 1] }
        traces.empty? ? @running.delete(thread) : @running[thread] = traces.first
      end

      def waits?(fiber)
        TOLD.bind_call(fiber).include?(WAITS)
      end

      # Hears of no switch until the next trace begins, unless there is one.
      def leave
        return unless nobody?

        @at.clear
        @switches.disable
        @hears = false
        # Another thread may have begun one in between.
        hear unless nobody?
      end

      # Whether there is no trace; those of threads that have ended come to no end.
      def nobody?
        @running.keys.each { |thread| @running.delete(thread) unless thread.alive? }
        @paused.to_a.each { |fiber, (thread, _)| @paused.delete(fiber) unless thread.alive? }
        @running.empty? && @paused.empty?
      end
    end
  end
end
