alter table wallet add column closing_at bigint;

create index if not exists wallet_by_closing on wallet (closing_at) where closing_at is not null;

alter table account add column erased_at bigint;
