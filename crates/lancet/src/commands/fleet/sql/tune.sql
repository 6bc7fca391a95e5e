-- Which settings differ from what most hosts have? The last answer of each host counts.
with last_of as (
  select id, title, setting, observed, host,
         row_number() over (partition by host, id, setting order by coalesce(end_ns, 0) desc, capture_id, observed) as age
  from tune_fact
  where observed is not null
),
of_value as (
  select id, title, setting, observed, count(*) as hosts, min(host) as a_host
  from last_of
  where age = 1
  group by id, title, setting, observed
),
placed as (
  select id, title, setting, observed, hosts, a_host,
         row_number() over (partition by id, setting order by hosts desc, observed) as place,
         sum(hosts) over (partition by id, setting) as of_hosts
  from of_value
)
select p.id as id, p.title as title, p.setting as setting, p.observed as observed, u.observed as usual,
       p.hosts as hosts, cast(p.of_hosts as bigint) as of_hosts, p.a_host as host
from placed p join placed u on u.id = p.id and u.setting = p.setting and u.place = 1
where p.place > 1 and 2 * u.hosts > p.of_hosts
order by hosts, of_hosts desc, id, setting, observed
limit 20
