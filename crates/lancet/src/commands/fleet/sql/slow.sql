-- Which calls or statements take long, and on which host most? Of few calls a percentile says little: those of answers with 100 come first.
with of_host as (
  select service, file, line, function, host,
         sum(calls) as host_calls, sum(total_ns) as host_ns,
         max(case when calls >= 100 then p99_ns end) as of_many_ns, max(p99_ns) as of_any_ns
  from call_agg
  where record = 'row'
  group by service, file, line, function, host
),
placed as (
  select service, file, line, function, host, coalesce(of_many_ns, of_any_ns) as p99_ns,
         case when of_many_ns is null then 1 else 0 end as few,
         row_number() over (partition by service, file, line, function
                            order by coalesce(of_many_ns, -1) desc, of_any_ns desc, host) as place,
         count(*) over (partition by service, file, line, function) as hosts,
         sum(host_calls) over (partition by service, file, line, function) as sum_calls,
         sum(host_ns) over (partition by service, file, line, function) as sum_ns
  from of_host
  where of_any_ns is not null
)
select service, function, file, line, host as slowest_host, p99_ns, hosts,
       cast(sum_calls as bigint) as all_calls, cast(sum_ns as bigint) as all_ns
from placed
where place = 1
order by few, p99_ns desc, all_ns desc, service, coalesce(function, ''), coalesce(file, ''), coalesce(line, 0)
limit 20
