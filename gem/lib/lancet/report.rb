# frozen_string_literal: true

require_relative "../lancet"

module Lancet
  # A report of the running program in a file, as JSON: its stacks, what its collector has done, and the objects by line that
  # Memprof tracks. It is written aside and renamed, so whoever finds the file finds it whole; only its owner may read it.
  #
  #   Lancet::Report.on_signal(:URG, file: "tmp/lancet-%{pid}.json")   # kill -URG PID
  #   Lancet::Report.at_exit(file: "tmp/lancet-%{pid}.json")
  module Report
    ASIDE = ".IN_PROGRESS"
    FILE = "lancet-%{pid}.json"
    # What `trap` answers where nobody has set anything.
    UNUSED = [nil, "DEFAULT", "SYSTEM_DEFAULT"].freeze
    private_constant :ASIDE, :UNUSED

    @lock = Mutex.new

    class << self
      # Writes a report now; the name of its file. `%{pid}` in it is the process.
      def write(file: FILE, stacks: true)
        path = File.expand_path(format(file, pid: Process.pid))
        @lock.synchronize do
          aside = "#{path}#{ASIDE}"
          # One that was cut off by the end of its process. What another user has put there instead is not written to.
          File.delete(aside) if File.exist?(aside)
          File.open(aside, File::WRONLY | File::CREAT | File::EXCL, 0o600) do |out|
            out.write(JSON.generate(contents(stacks)), "\n")
          end
          File.rename(aside, path)
        end
        path
      rescue SystemCallError => e
        raise Error, "no report can be written: #{e.message}"
      end

      # Writes one whenever the process gets this signal, or calls the block, in a thread of its own. What cannot be done is said to `log`.
      # Raises if the program traps the signal itself, or Ruby does not let it be trapped; children that are forked later write their own.
      def on_signal(signal = :URG, file: FILE, log: $stderr, &instead)
        instead ||= -> { write(file: file) }
        before = trap(signal) { Thread.new { told(log, &instead) } }
        return if UNUSED.include?(before) || ours?(before)

        trap(signal, before)
        raise Error, "the program traps SIG#{signal} itself: name a signal that it does not use"
      rescue ArgumentError, SystemCallError => e
        raise Error, "SIG#{signal} cannot be used: #{e.message}"
      end

      # Tracks objects from now on, and writes a report when this process ends. A child of a fork writes none.
      def at_exit(file: FILE, log: $stderr)
        owner = Process.pid
        Memprof.start
        Kernel.at_exit { told(log) { write(file: file, stacks: false) } if Process.pid == owner }
      end

      private

      def ours?(handler)
        handler.is_a?(Proc) && handler.source_location&.first == __FILE__
      end

      def told(log)
        yield
      rescue StandardError => e
        # Whatever it is (a name of a file that cannot be formatted, a text that JSON does not take): in a program that ends with its threads it would be the end.
        log.puts("lancet: #{e.message}")
      end

      def contents(stacks)
        report = { lancet: VERSION, pid: Process.pid, ruby: RUBY_DESCRIPTION, time: Time.now.utc.strftime("%FT%TZ"),
                   program: $PROGRAM_NAME, gc: GC.stat, failed: [] }
        part(report, :objects) { Memprof.rows&.map { |row| { file: row.path, line: row.line, type: row.type, live: row.live } } }
        part(report, :stacks) { Lancet.stack } if stacks
        report
      end

      # One part that cannot be had is no reason to lose the others.
      def part(report, name)
        report[name] = yield
      rescue Error => e
        report[:failed] << "#{name}: #{e.message}"
      end
    end
  end
end
