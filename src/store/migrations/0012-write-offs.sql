alter table wallet add column written_off bigint not null default 0;

update wallet set written_off = (
  select coalesce(sum(case when transfer.kind = 'write_off' then transfer.amount when transfer.id like '%.written_off' then -transfer.amount else 0 end), 0)
  from transfer where transfer.account_id = wallet.account_id
) where account_id in (select account_id from audit where action = 'debt.written_off');

create index if not exists agent_payment_by_unclear on agent_payment (created_at) where state = 'unclear';
