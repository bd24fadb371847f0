/** The defaults are the servers of compose.yaml. */
export const databaseUrl: string =
  process.env.DATABASE_URL ?? 'postgres://postgres:onceward@127.0.0.1:15432/postgres'
