/** The defaults are the servers of compose.yaml. */
export const databaseUrl: string =
  process.env.DATABASE_URL ?? 'postgres://postgres:onceward@127.0.0.1:15432/postgres'

export const rabbitUrl: string = process.env.RABBITMQ_URL ?? 'amqp://guest:guest@127.0.0.1:15673'
export const queue: string = process.env.QUEUE ?? 'orders'
/** Where the receipts go. */
export const receiptsQueue: string = `${queue}.receipts`
