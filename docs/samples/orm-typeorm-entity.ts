import { EntitySchema } from 'typeorm'

interface ChargeRow {
  orderId: string
  cents: number
}

export const Charge: EntitySchema<ChargeRow> = new EntitySchema<ChargeRow>({
  name: 'Charge',
  tableName: 'charges',
  columns: {
    orderId: { name: 'order_id', type: 'text', primary: true },
    cents: { type: 'int' },
  },
})
