-- In which functions do threads run, over all hosts?
-- Rows by something else than functions, and samples of threads that waited, add up to something else.
with ran as (
  select * from sample where grouped_by = 'function' and mode = 'cpu'
),
answers as (
  select service, capture_id, max(samples) as samples from ran group by service, capture_id
),
all_of as (
  select service, sum(samples) as samples from answers group by service
)
select s.service as service, s.function as function, s.file as file,
       count(distinct s.host) as hosts, cast(sum(s.own) as bigint) as own_samples, cast(sum(s.total) as bigint) as total_samples,
       round(100.0 * sum(s.own) / max(a.samples), 1) as own_percent
from ran s join all_of a on a.service = s.service
group by s.service, s.function, s.file
order by own_samples desc, service, coalesce(s.function, ''), coalesce(s.file, '')
limit 20
