-- What do lines hold more of in the newest release than in the one before?
-- Rows by something else have no line, and all of them would be one.
with by_line as (
  select * from alloc_agg where record = 'row' and grouped_by = 'line'
),
seen as (
  select service, release, min(start_ns) as began from by_line where release is not null group by service, release
),
releases as (
  select service, release, row_number() over (partition by service order by began desc, release desc) as age from seen
),
held as (
  select a.service as service, a.file as file, a.line as line, a.type as type, r.age as age, max(a.release) as of_release,
         sum(a.now_bytes) / count(distinct a.capture_id) as bytes
  from by_line a join releases r on r.service = a.service and r.release = a.release
  where r.age <= 2
  group by a.service, a.file, a.line, a.type, r.age
),
beside as (
  select service, file, line, type,
         max(case when age = 1 then of_release end) as release,
         coalesce(max(case when age = 2 then bytes end), 0) as old_mean,
         coalesce(max(case when age = 1 then bytes end), 0) as new_mean
  from held
  group by service, file, line, type
)
select service, file, line, type, release,
       cast(floor(old_mean) as bigint) as before_bytes, cast(floor(new_mean) as bigint) as now_bytes,
       cast(floor(new_mean - old_mean) as bigint) as more_bytes
from beside
where release is not null and new_mean - old_mean >= 1
  and service in (select service from releases where age = 2)
order by more_bytes desc, service, coalesce(file, ''), coalesce(line, 0), coalesce(type, '')
limit 20
