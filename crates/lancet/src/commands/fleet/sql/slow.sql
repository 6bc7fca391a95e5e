-- Which calls or statements take long, and on which host most?
with of_host as (
  select service, file, line, function, host,
         sum(calls) as host_calls, sum(total_ns) as host_ns, max(p99_ns) as host_p99_ns
  from call_agg
  where record = 'row'
  group by service, file, line, function, host
),
placed as (
  select service, file, line, function, host, host_p99_ns as p99_ns,
         row_number() over (partition by service, file, line, function order by host_p99_ns desc, host) as place,
         count(*) over (partition by service, file, line, function) as hosts,
         sum(host_calls) over (partition by service, file, line, function) as all_calls,
         sum(host_ns) over (partition by service, file, line, function) as all_ns
  from of_host
  where host_p99_ns is not null
)
select service, function, file, line, host as slowest_host, p99_ns, hosts, all_calls, all_ns
from placed
where place = 1
order by p99_ns desc, all_ns desc, service, coalesce(function, ''), coalesce(file, ''), coalesce(line, 0)
limit 20
