-- Which lines leak, on how many hosts, and since which release?
-- The release is that of the earliest answer of the service in which the line leaks.
with leaking as (
  select service, file, line, type, host, capture_id, now_bytes, release, start_ns,
         row_number() over (partition by service, file, line, type order by start_ns, capture_id) as place
  from alloc_agg
  where record = 'leak'
),
hosts_of as (
  select service, count(distinct host) as of_hosts from alloc_agg group by service
)
select l.service as service, l.file as file, l.line as line, l.type as type,
       count(distinct l.host) as hosts, max(h.of_hosts) as of_hosts,
       max(case when l.place = 1 then l.release end) as since_release,
       min(l.start_ns) as since_ns,
       count(distinct l.capture_id) as answers,
       max(l.now_bytes) as most_bytes
from leaking l join hosts_of h on h.service = l.service
group by l.service, l.file, l.line, l.type
order by hosts desc, most_bytes desc, service, coalesce(l.file, ''), coalesce(l.line, 0), coalesce(l.type, '')
limit 20
