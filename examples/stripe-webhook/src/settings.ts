/** The defaults are the servers of compose.yaml. */
export const databaseUrl: string =
  process.env.DATABASE_URL ?? 'postgres://postgres:onceward@127.0.0.1:15432/postgres'

/** Stripe's page of the endpoint shows it, and so does `stripe listen`. */
export const signingSecret: string = process.env.STRIPE_SIGNING_SECRET ?? 'whsec_local'
