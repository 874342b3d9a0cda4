create table if not exists agent_payment (
  id text primary key,
  account_id text not null,
  invoice_id text not null,
  made_invoice bigint not null,
  signed text not null,
  payer text not null,
  total_cents bigint not null,
  state text not null,
  reason text,
  tx_hash text,
  expires_at bigint not null,
  created_at bigint not null,
  due_at bigint
);

create index if not exists agent_payment_by_due on agent_payment (due_at);

create index if not exists agent_payment_by_invoice on agent_payment (invoice_id, id);
