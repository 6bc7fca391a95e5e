# frozen_string_literal: true

require_relative "block"
require_relative "companion"

module Lancet
  # Objects that one thread makes, counted apart from those of all others. The companion gives a thread its account once; from then on the
  # thread begins, reads and ends it itself, by methods of the agent's: crates/agent/src/languages/ruby/births/door.rs says what they answer.
  class Births
    GONE = "what was counted is gone: the agent has left"
    # What is made by code below it is not told.
    FOLDER = "#{File.expand_path("..", __dir__)}/"
    MOST_PARTS = 64
    private_constant :GONE, :MOST_PARTS

    # Where objects are made: a line and a type.
    Place = Struct.new(:path, :line, :type)

    # The agent's methods, which it defines in this object: one of their own for each agent that comes. What they answer for one agent's lines only that one
    # knows, so what is learned of them is kept here.
    class Door
      def initialize
        # Places by the number of their site.
        @places = []
      end

      # Each place of an answer of `read`, the one with the most objects first, and behind each how many were made there: one Array, because a page of an
      # application has hundreds of places.
      def places(rows)
        found = lines(rows) or raise Lost, GONE
        # Those of a class without a name are told each time: it may be given one.
        found.pop.each_slice(4) { |site, path, line, type| @places[site] = Place.new(path || nil, line, type) }
        at = 0
        while at < found.size
          found[at] = @places[found[at]]
          at += 2
        end
        found
      end
    end

    # What a thread has made at the end of a stretch, but for what this gem has made and what Ruby does not show. The agent says what it is called, so what
    # is asked after the agent has left is gone, but for what `keep` has asked.
    class Made
      def initialize(door, rows)
        @door = door
        @rows = rows
      end

      # How many objects found no room.
      def lost
        @rows.unpack1("@8Q")
      end

      def keep
        places
        self
      end

      # Calls the block with each place and how many objects were made there, the most first.
      def each
        found = places
        at = 0
        while at < found.size
          yield found[at], found[at + 1]
          at += 2
        end
      end

      def rows
        @as_rows ||= [].tap { |rows| each { |place, born| rows << Row.new(place.path, place.line, place.type, 0, born) } }
      end

      def count
        @count ||= @places ? count_places : @door.count(@rows) || raise(Lost, GONE)
      end

      # How many of each type, those of the line with the most first.
      def types
        types = Hash.new(0)
        each { |place, born| types[place.type] += born }
        types.default = nil
        types
      end

      # The same, and each line, as Hashes.
      def to_h
        lines = []
        each { |place, born| lines << { file: place.path, line: place.line, type: place.type, count: born } }
        { created: count, types: types, lines: lines }
      end

      # The same as JSON.
      def json
        @json ||= @door.json(@rows) || raise(Lost, GONE)
      end

      private

      def places
        @places ||= @door.places(@rows)
      end

      def count_places
        sum = 0
        each { |_, born| sum += born }
        sum
      end
    end

    class << self
      # Returns the counter of this thread, and makes one if there is none or it is not this process's.
      def current
        known = Thread.current.thread_variable_get(:lancet_births)
        return known if known&.ours?

        Thread.current.thread_variable_set(:lancet_births, new)
        Thread.current.thread_variable_get(:lancet_births)
      end

      # What the block makes is of no stretch of this thread: it reports one.
      def quietly(&block)
        known = Thread.current.thread_variable_get(:lancet_births)
        known ? known.quietly(&block) : yield
      end

      # The last agent's; nil before there is one.
      attr_reader :door

      # Called by an agent, which defines its methods in what this answers.
      def new_door
        @door = Door.new
      end
    end

    def initialize
      @owner = Process.pid
      @tid = own_id
      @depth = 0
      @quiet = false
      @door = nil
    end

    def ours?
      @owner == Process.pid
    end

    # What `begin` answers: the number of the account that was open then, and what this thread had made in it until then; nil = nothing, because it was
    # opened for this stretch; false while it is paused. With what was made in its earlier parts. (A fourth member would take memory of its own.)
    Stretch = Struct.new(:number, :before, :parts)
    private_constant :Stretch

    # Counts from now on; what this answers must be handed to `end` or `drop`, whatever comes in between.
    def begin
      before = @door.read(@number) if @depth.positive?
      unless before
        # The first one, or the agent has left in the midst of those that go on, which have lost what they had.
        @depth = 0
        want
      end
      @depth += 1
      Stretch.new(@number, before || nil)
    end

    # Ends a stretch; what was made in it.
    def end(stretch)
      raise Lost, GONE unless stretch.number == @number

      last = until_now(stretch) unless stretch.before == false
      raise Lost, GONE unless last || stretch.parts

      Made.new(@door, stretch.parts ? together([*stretch.parts, *last]) : last)
    ensure
      drop(stretch)
    end

    # What this thread makes is of another fiber's, and not of this stretch, until `resume`.
    def pause(stretch)
      made = until_now(stretch) if stretch.number == @number
      return unless made

      (stretch.parts ||= []) << made
      # Parts are added up now and then, so that they take no more memory than what they say.
      stretch.parts = [together(stretch.parts)] if stretch.parts.size > MOST_PARTS
    ensure
      stretch.before = false
    end

    # Takes back `pause`.
    def resume(stretch)
      raise Lost, GONE unless stretch.number == @number

      stretch.before = @door.read(@number) or raise Lost, GONE
    end

    # Ends a stretch of which nobody wants to know.
    def drop(stretch)
      return unless stretch.number == @number

      @depth -= 1
      @door.stop(@number) if @depth.zero?
    end

    # Does what Births.quietly does, for this thread.
    def quietly
      return yield if @depth.zero? || @quiet

      number = @number
      begin
        @quiet = true
        @door.stop(number)
        yield
      ensure
        @quiet = false
        @door.begin(number) if @depth.positive? && number == @number
      end
    end

    private

    # The kernel's id of this thread.
    def own_id
      Integer(File.readlink("/proc/thread-self")[/\d+\z/])
    rescue SystemCallError => e
      raise Error, "which thread this is cannot be told: #{e.message}: is /proc mounted?"
    end

    def want
      # No account has had this number before.
      @number = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      return if @door&.begin(@number)

      Companion.begin("\"do\":\"account\",\"thread\":#{@tid}")
      @door = Births.door or raise Error, "lancet's agent could not define its methods: is the class Lancet::Births this gem's own?"
      raise Lost, GONE unless @door.begin(@number)
    end

    # What was made since a stretch has begun or went on, a String of the agent's.
    def until_now(stretch)
      found = @door.read(@number) or raise Lost, GONE
      stretch.before ? less(found, stretch.before) : found
    end

    # The sum of several such Strings, of one session.
    def together(parts)
      session = nil
      lost = 0
      born = Hash.new(0)
      parts.each do |part|
        of, more, *rows = part.unpack("Q*")
        raise Lost, GONE unless (session ||= of) == of

        lost += more
        rows.each { |row| born[row & 0xffff_ffff] += row >> 32 }
      end
      [session, lost, *born.map { |site, count| site | count << 32 }].pack("Q*")
    end

    # What this thread has made, a String of the agent's, without what it had made before.
    def less(found, before)
      session, lost, *rows = found.unpack("Q*")
      _, lost_before, *rows_before = before.unpack("Q*")
      # A row is a site and, in the upper half, its births.
      born = rows_before.to_h { |row| [row & 0xffff_ffff, row >> 32] }
      rows.map! do |row|
        site = row & 0xffff_ffff
        site | [(row >> 32) - born.fetch(site, 0), 0].max << 32
      end
      [session, lost - lost_before, *rows].pack("Q*")
    end
  end
end
