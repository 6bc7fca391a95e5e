# The script of `versions/probe`, which knows the marked lines.
class Probe
end

$kept = Array.new(1000) { Probe.new }
$made = []

def inner(round)
  $made << "made in round #{round}" # makes
  Process.ppid # calls
  sleep 0.01 # waits
end

def outer(round)
  inner(round) # outer
end

def burn(until_then)
  x = 0
  x += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_then
  x
end

$stdout.sync = true
round = 0
while true
  round += 1
  if ARGV[0] == "burn"
    burn(Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.05) # starts
  else
    outer(round) # main
  end
  puts round
end
