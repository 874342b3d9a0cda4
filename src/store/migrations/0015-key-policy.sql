alter table api_key add column policy text;

alter table api_key add column alert_percents text;
