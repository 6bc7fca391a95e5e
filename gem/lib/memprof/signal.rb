# frozen_string_literal: true

require_relative "../memprof"
require_relative "../lancet/report"

# Tracks objects from now on, and saves the whole heap at each SIGURG, as memprof did: in a file in /tmp, which `lancet heap FILE` reads.
Memprof.start
Lancet::Report.on_signal(:URG) { Memprof.dump_all("/tmp/memprof-#{Process.pid}-#{Time.now.to_i}.heap") }
