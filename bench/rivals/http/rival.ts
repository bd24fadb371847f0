import type { Application } from 'express'

/** Where a rival runs. */
export interface Place {
  readonly databaseUrl: string
  readonly redisUrl: string
}

/** One way to answer `POST /orders` with one effect for each key. */
export interface HttpRival {
  /** The name in the output. */
  readonly name: string
  readonly hasRedis: boolean
  /** Creates what the rival needs in the database. */
  setUp(databaseUrl: string): Promise<void>
  /** Adds the route. The process of the server ends without a word, so nothing has to be closed. */
  serve(app: Application, place: Place): Promise<void>
}

export const nothingToSetUp = (): Promise<void> => Promise.resolve()
