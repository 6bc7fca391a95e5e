# frozen_string_literal: true

require_relative "births"
require_relative "counters"
require_relative "fibers"

module Lancet
  # The account of a stretch of one fiber's time, a block or a request: what it has made, called and taken. What other threads, and other fibers of its
  # thread, do meanwhile is not in it, but for garbage collections, which stop every thread (see Fibers).
  class Trace
    # What the block has returned; nil if it has raised.
    attr_reader :result

    # Seconds of wall clock, and of this thread's processor time.
    attr_reader :seconds, :cpu

    # Collections of garbage.
    attr_reader :collections

    # Of what the block served: method and path.
    attr_reader :request

    # Sentences about what could not be counted.
    attr_reader :lost

    # An exception of another thread, as a time limit of the program's, waits while an account is opened or closed: one that is left open would be counted in
    # for ever.
    LATER = { Object => :never }.freeze
    # Steps of one trace whose calls are counted: from where its fiber goes on to where another one comes.
    MOST_STEPS = 4096
    # Ruby tells from 3.1 on how long its collections take.
    TELLS_COLLECTING = GC.respond_to?(:total_time)
    ON_CPU = Process::CLOCK_THREAD_CPUTIME_ID
    private_constant :MOST_STEPS, :TELLS_COLLECTING, :ON_CPU

    # Traces the block. With `objects: false` the objects that it makes are not counted; with `calls: true`, or a list of groups, what
    # it calls is (see Counters). What the block raises comes out of it, after `ended` has been called with the trace, and whatever that one raises.
    def self.of(objects: true, calls: false, request: nil, ended: nil)
      trace = new(request)
      before = $!
      begin
        trace.begin(objects, calls)
        trace.result = yield
      ensure
        trace.finish_after(before.equal?($!) ? nil : $!, ended) if trace.begun?
      end
      trace
    end

    # What is told of a request: no query, which may hold secrets. What Rails calls the action is known only within it.
    def self.request_of(env)
      request = { method: env["REQUEST_METHOD"], path: path_of(env).scrub("?") }
      action = env["action_dispatch.request.path_parameters"]
      action ? request.merge(action.slice(:controller, :action)) : request
    end

    # What a framework calls that which has answered a request: the action of Rails, the route of Sinatra; nil where it does not say.
    def self.route_of(env)
      action = env["action_dispatch.request.path_parameters"]
      action ? "#{env["REQUEST_METHOD"]} #{action[:controller]}##{action[:action]}" : env["sinatra.route"]
    end

    # Its bytes, as UTF-8, which they need not be: a server leaves them as they came, and an application may have set one of the two parts.
    def self.path_of(env)
      (env["SCRIPT_NAME"].to_s.b << env["PATH_INFO"].to_s.b).force_encoding(Encoding::UTF_8)
    end

    # What the framework calls that which has answered the request; nil where it does not say.
    attr_accessor :route

    attr_writer :result

    # For Fibers: the fiber that it is of, nil before its beginning and after its end; the trace around it.
    attr_accessor :fiber, :below

    def initialize(request)
      @request = request
      @lost = []
    end

    # Begins. Raises if it cannot be done.
    def begin(objects, calls)
      @counters = Births.quietly { Counters.of(calls) } if calls
      Thread.handle_interrupt(LATER) do
        @births = Births.current if objects
        @stretch = @births&.begin
        @begun = true
        @started = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
        @collections = GC.count
        @collecting = GC.total_time if TELLS_COLLECTING
        @cpu = 0.0
        @on_cpu = Process.clock_gettime(ON_CPU)
        @seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @from = @counters&.mark
        Fibers.begin(self)
      end
    end

    # When it began, as a Time.
    def started
      @started && Time.at(0, @started, :nsec)
    end

    # Seconds that its collections took; nil before Ruby 3.1, which does not tell.
    def collecting
      @collecting && @collecting / 1e9
    end

    # Whether the trace has begun.
    def begun?
      !@begun.nil?
    end

    # What the thread does from now on is another fiber's, until `resume`.
    def pause
      lose("what fibers did that it resumed itself is not counted: this Ruby does not tell them from others") unless Fibers::TELLS
      count_step
      @births.pause(@stretch) if @stretch
    rescue Error => e
      lose(e.message)
    end

    # Takes back `pause`.
    def resume
      @on_cpu = Process.clock_gettime(ON_CPU)
      @births.resume(@stretch) if @stretch
      return unless @counters

      if (@steps&.size || 0) < MOST_STEPS
        @from = @counters.mark
      else
        lose("calls are not counted beyond the first #{MOST_STEPS} steps of its fiber")
      end
    rescue Error => e
      lose(e.message)
    end

    # Ends, and tells `ended` if it took `least` seconds or more. What that one does is of no trace around this one.
    def finish(ended, least = 0)
      Thread.handle_interrupt(LATER) do
        begin
          stop
          wanted = @seconds >= least
          @made = end_births if wanted && @stretch
        ensure
          drop
        end
        return unless wanted
      end
      ended ? Births.quietly { ended.call(self) } : keep
    end

    # Ends after the program has raised something, which no error of telling it replaces; nil = it has not.
    def finish_after(raised, ended)
      finish(ended)
    rescue StandardError
      raise unless raised
    end

    # Ends what was begun, of which nobody wants to know; once.
    def drop
      close if @fiber
      stretch, @stretch = @stretch, nil
      @births.drop(stretch) if stretch
    end

    # It can be asked as long as it is there: what its objects are called is asked now, and not when it is told, when nobody may know any more.
    def keep
      made(&:keep)
      self
    end

    # Objects that were made, dead or alive, by line and type, the most first; nil if they were not counted.
    def objects
      made(&:rows)
    end

    # How many objects were made, dead or alive; nil if they were not counted.
    def created
      made(&:count)
    end

    # The same as JSON, of the agent's making; nil if they were not counted.
    def objects_as_json
      made(&:json)
    end

    # Calls by group, as Counters::Sum; nil if they were not counted.
    def calls
      ask_for_calls(false) unless @calls
      @calls
    end

    # What the calls were about, by line, and when they were made: `rows` and `pieces` as docs/inside.md has them; nil if they were not counted.
    def details
      ask_for_calls(true) unless @details
      @details
    end

    # As JSON writes it; times are seconds.
    def to_h
      tracers = { gc: { calls: collections, time: collecting }, objects: objects_to_h, **(calls || {}).transform_values(&:to_h) }.compact
      { start: start, time: seconds, cpu: cpu, request: request, tracers: tracers, lost: lost }.compact
    end

    # The same as a line. The agent writes what it says of objects, which is the most of it and copied once; Hashes of it would take longer than all of the line.
    def to_json(*)
      objects = made(&:json)
      found = calls
      line = String.new(capacity: 600 + (objects ? objects.bytesize : 0), encoding: Encoding::UTF_8)
      line << "{\"start\":\"#{start}\",\"time\":#{seconds},\"cpu\":#{cpu},"
      line << "\"request\":" << JSON.generate(request) << "," if request
      line << "\"tracers\":{\"gc\":{\"calls\":#{collections},\"time\":#{collecting || "null"}}"
      line << ",\"objects\":" << objects if objects
      found&.each { |group, sum| line << ",\"#{group}\":" << JSON.generate(sum.to_h) }
      line << "},\"lost\":" << (lost.empty? ? "[]" : JSON.generate(lost)) << "}"
    end

    # Appends that line to a file, which only its owner may read. With `follow: false` only to a file of this user's own, and through no link: for a name in a folder
    # that others may write to.
    def append_to(path, follow: true)
      line = to_json << "\n"
      return File.open(path, "a", 0o600) { |file| file.write(line) } if follow

      File.open(path, File::WRONLY | File::APPEND | File::CREAT | File::NOFOLLOW | File::NONBLOCK, 0o600) do |file|
        raise Errno::EPERM, "#{path} is no file of this user's own" unless file.stat.file? && file.stat.owned?

        file.write(line)
      end
    end

    # The trace as one line for a log: the request, and the figures.
    def to_s
      ["lancet:", [told_of_request, figures].compact.join(" "), *lost.map { |text| "(#{text})" }].join(" ")
    end

    # The figures of `to_s`, without the request.
    def figures
      parts = [format("%.1f ms, %.1f ms CPU", seconds * 1e3, cpu * 1e3)]
      parts << "#{created} objects" if created
      parts << "#{collections} collections#{format(" %.1f ms", collecting * 1e3) if collecting}" if collections.positive?
      calls&.each { |group, sum| parts << "#{group} #{sum.calls} in #{format("%.1f ms", sum.time * 1e3)}" }
      parts.join(", ")
    end

    # When it began, as a text.
    def start
      started.utc.strftime("%FT%T.%6NZ")
    end

    private

    def ask_for_calls(in_detail)
      return if !@counters || @failed

      @calls, missing, @details = Births.quietly { @counters.between(@steps || [], details: in_detail) }
      missing.each { |text| lose(text) }
    rescue Error => e
      # It is not asked again by each that wants to know: the answer may take seconds.
      @failed = true
      lose(e.message)
    end

    # The request as one printable text. Its path is what somebody has sent, so control characters are written as escapes.
    def told_of_request
      return unless request

      request.values.join(" ").scrub("?").gsub(/[^[:print:]]/) { |character| character.dump[1..-2] }
    end

    def stop
      close if @fiber
      count_step if @on_cpu
      @seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - @seconds
      @collections = GC.count - @collections
      @collecting = GC.total_time - @collecting if @collecting
    end

    # From here on no switch to another fiber pauses or resumes it.
    def close
      Fibers.end(self)
      @fiber = nil
    end

    # Adds what its fiber has done since it went on.
    def count_step
      if @from
        (@steps ||= []) << [@from, @counters.mark]
        @from = nil
      end
      @cpu += Process.clock_gettime(ON_CPU) - @on_cpu
      @on_cpu = nil
    end

    def end_births
      stretch, @stretch = @stretch, nil
      made = @births.end(stretch)
      lose("#{made.lost} objects are not told by line and type: there are too many lines") if made.lost.positive?
      made
    rescue Error => e
      lose(e.message)
      nil
    end

    def lose(text)
      @lost << text unless @lost.include?(text)
    end

    # What `told` answers of the objects that were counted; nil if there are none.
    def made
      return unless @made

      yield @made
    rescue Error => e
      lose(e.message)
      nil
    end

    def objects_to_h
      made(&:to_h)
    end
  end
end
