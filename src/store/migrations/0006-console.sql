create table if not exists invitation (
  id text primary key,
  account_id text not null,
  email text not null,
  invited_by text not null,
  created_at bigint not null,
  expires_at bigint not null,
  unique (account_id, email)
);

create index if not exists invitation_by_email on invitation (email, id);
