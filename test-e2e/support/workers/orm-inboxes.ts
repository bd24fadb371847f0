import type {
  ConnectedOrm,
  OrmUnderTest,
} from '../../../packages/postgres/src/fixtures/orms/orm-under-test.ts'
import type { OrmName, WorkerConfig } from './protocol.ts'

const FIXTURES = '../../../packages/postgres/src/fixtures/orms'

/** Loads the one ORM that the worker has. */
const ORMS: Readonly<Record<OrmName, () => Promise<OrmUnderTest>>> = {
  knex: async () => (await import(`${FIXTURES}/knex.ts`)).knexUnderTest,
  drizzle: async () => (await import(`${FIXTURES}/drizzle.ts`)).drizzleUnderTest,
  'drizzle-postgres-js': async () =>
    (await import(`${FIXTURES}/drizzle.ts`)).drizzlePostgresJsUnderTest,
  'postgres-js': async () => (await import(`${FIXTURES}/postgres-js.ts`)).postgresJsUnderTest,
  prisma: async () => (await import(`${FIXTURES}/prisma.ts`)).prismaUnderTest,
  typeorm: async () => (await import(`${FIXTURES}/typeorm.ts`)).typeormUnderTest,
  'mikro-orm': async () => (await import(`${FIXTURES}/mikro-orm.ts`)).mikroOrmUnderTest,
}

export const ORM_NAMES = Object.keys(ORMS) as readonly OrmName[]

/** The worker's ORM, connected. Undefined if its handler has a client of pg. */
export async function connectOrm({
  databaseUrl,
  orm,
  poolMax = 10,
}: Pick<WorkerConfig, 'databaseUrl' | 'orm' | 'poolMax'>): Promise<ConnectedOrm | undefined> {
  return orm === undefined ? undefined : (await ORMS[orm]()).connect(databaseUrl, poolMax)
}
