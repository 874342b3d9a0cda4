alter table agent_payment add column method text not null default 'x402';

-- A shared payment token is single-use, also where another challenge is answered with it.
create unique index if not exists agent_payment_by_token on agent_payment (payer) where method = 'stripe';
