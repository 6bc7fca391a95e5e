-- Which calls or statements take longer in the newest release than in the one before?
with seen as (
  select service, release, min(start_ns) as began from call_agg where release is not null group by service, release
),
releases as (
  select service, release, row_number() over (partition by service order by began desc, release desc) as age from seen
),
taken as (
  select c.service as service, c.file as file, c.line as line, c.function as function, r.age as age, max(c.release) as of_release,
         sum(c.total_ns) / sum(c.calls) as mean_ns
  from call_agg c join releases r on r.service = c.service and r.release = c.release
  where c.record = 'row' and r.age <= 2 and c.calls > 0
  group by c.service, c.file, c.line, c.function, r.age
),
beside as (
  select service, file, line, function,
         max(case when age = 1 then of_release end) as release,
         max(case when age = 2 then mean_ns end) as old_mean,
         max(case when age = 1 then mean_ns end) as new_mean
  from taken
  group by service, file, line, function
)
select service, function, file, line, release,
       cast(floor(old_mean) as bigint) as before_ns, cast(floor(new_mean) as bigint) as now_ns,
       cast(floor(new_mean - old_mean) as bigint) as more_ns
from beside
where new_mean - old_mean >= 1
order by more_ns desc, service, coalesce(function, ''), coalesce(file, ''), coalesce(line, 0)
limit 20
