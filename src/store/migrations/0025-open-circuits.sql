alter table process add column open_circuits text not null default '[]';
