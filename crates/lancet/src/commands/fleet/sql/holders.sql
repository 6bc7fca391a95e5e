-- Who holds the memory, on how many hosts, and how much at most?
with hosts_of as (
  select service, count(distinct host) as of_hosts from heap_class group by service
)
select c.service as service, c.name as name, c.holds as holds, c.file as file, c.line as line,
       count(distinct c.host) as hosts, max(h.of_hosts) as of_hosts,
       max(c.retained) as most_retained, max(c.percent) as most_percent,
       count(distinct c.capture_id) as answers
from heap_class c join hosts_of h on h.service = c.service
where c.record = 'suspect'
group by c.service, c.name, c.holds, c.file, c.line
order by hosts desc, most_retained desc, service, coalesce(c.name, ''), coalesce(c.holds, ''), coalesce(c.file, ''), coalesce(c.line, 0)
limit 20
