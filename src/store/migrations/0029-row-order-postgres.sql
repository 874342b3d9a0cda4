alter table spender drop constraint spender_pkey, add constraint spender_pkey primary key (key_id, account_id);

alter table hold drop constraint hold_pkey, add constraint hold_pkey primary key (id, account_id);

alter table swept_hold drop constraint swept_hold_pkey, add constraint swept_hold_pkey primary key (id, account_id);
