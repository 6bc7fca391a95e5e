ready
if defined?(Ractor)
  $ractors = Array.new(3) { Ractor.new { Ractor.receive } }
  sleep 0.3
end
ready
