create table if not exists event (
  id text primary key,
  account_id text not null,
  type text not null,
  created_at bigint not null,
  data text not null
);

create index if not exists event_by_account on event (account_id, id);

create index if not exists event_by_age on event (created_at);

create table if not exists webhook (
  id text primary key,
  account_id text not null,
  url text not null,
  events text not null,
  description text,
  status text not null,
  disabled_reason text,
  sealed text,
  former_sealed text,
  former_until bigint not null,
  failing_since bigint,
  created_at bigint not null
);

create index if not exists webhook_by_account on webhook (account_id, id);

create table if not exists webhook_delivery (
  id text primary key,
  webhook_id text not null,
  account_id text not null,
  event_id text not null,
  status text not null,
  tries bigint not null,
  due_at bigint not null,
  lease text,
  attempts text not null,
  created_at bigint not null,
  ended_at bigint
);

create index if not exists webhook_delivery_by_due on webhook_delivery (status, due_at);

create index if not exists webhook_delivery_by_webhook on webhook_delivery (webhook_id, id);

create index if not exists webhook_delivery_by_age on webhook_delivery (created_at);

create table if not exists audit (
  id text primary key,
  account_id text,
  at bigint not null,
  actor_type text not null,
  actor_id text not null,
  action text not null,
  target text,
  detail text not null,
  network text
);

create index if not exists audit_by_account on audit (account_id, id);

create index if not exists audit_by_actor on audit (actor_id, id);

alter table wallet add column low_at bigint not null default 1000000000;
