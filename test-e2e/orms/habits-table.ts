/** In the order of docs/orms.md. */
export const ORM_NAMES = [
  ...['Knex', 'Drizzle', 'postgres.js', 'Prisma', 'TypeORM', 'MikroORM'],
] as const

/**
 * What a write becomes. `inside`: a part of the event's transaction. `outside`: it stays when the handler fails. `warned`:
 * the same, and the guard logs the first one. `refused`: the run fails, and nothing is written.
 */
export type Habit = 'inside' | 'outside' | 'warned' | 'refused'

const WITH_TX = 'inside'

/** What of an ORM works in a handler. `habits.test.ts` plays each, and docs/orms.md shows this table. */
export const HABITS: Readonly<Record<string, Readonly<Record<string, Habit>>>> = {
  'a nested transaction of `tx`': {
    Knex: WITH_TX,
    Drizzle: WITH_TX,
    'postgres.js': WITH_TX,
    Prisma: WITH_TX,
    TypeORM: WITH_TX,
    MikroORM: WITH_TX,
  },
  'a nested transaction that asks for another isolation level': {
    Drizzle: WITH_TX,
    Prisma: WITH_TX,
    TypeORM: WITH_TX,
    MikroORM: WITH_TX,
  },
  'a list of queries: `tx.$transaction([…])`': { Prisma: WITH_TX },
  'a helper that is given the transaction: `transacting(tx)`, `withRepository()`': {
    Knex: WITH_TX,
    TypeORM: WITH_TX,
  },
  'the root handle': {
    Knex: 'warned',
    Drizzle: 'outside',
    'postgres.js': 'outside',
    Prisma: 'outside',
    TypeORM: 'warned',
    MikroORM: WITH_TX,
  },
  'a transaction of the root handle': {
    Knex: 'warned',
    Drizzle: 'outside',
    'postgres.js': 'outside',
    Prisma: 'outside',
    TypeORM: 'warned',
    MikroORM: WITH_TX,
  },
  'a repository of the root handle': { TypeORM: 'warned', MikroORM: WITH_TX },
  'a fork: `orm.em.fork()`, `tx.fork()`': { MikroORM: 'warned' },
  'a listener before the commit': { TypeORM: WITH_TX, MikroORM: WITH_TX },
  'a hook of an entity': { TypeORM: WITH_TX, MikroORM: WITH_TX },
  'an extension of queries': { Prisma: WITH_TX },
  'an extension that calls `prisma.$transaction([…])`, as for row-level security': {
    Prisma: 'refused',
  },
  'a write beside read replicas, and the read of it': { TypeORM: WITH_TX, MikroORM: WITH_TX },
}
