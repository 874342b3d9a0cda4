alter table usage_pending add column charges text;

create table if not exists charge_hour (
  at bigint primary key,
  promo_nano bigint not null,
  paid_nano bigint not null,
  overrun_nano bigint not null
);

insert into charge_hour (at, promo_nano, paid_nano, overrun_nano)
select at - at % 3600000,
  cast(sum(case when from_account like '%:promo' then amount else 0 end) as bigint),
  cast(sum(case when from_account like '%:paid' then amount else 0 end) as bigint),
  cast(sum(case when from_account = 'system:overrun_expense' then amount else 0 end) as bigint)
from transfer
where kind = 'usage' and not exists (select 1 from charge_hour)
  and not exists (select 1 from usage_pending where charges is not null)
group by 1;
