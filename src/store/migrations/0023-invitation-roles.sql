alter table invitation add column role text not null default 'developer';
