import { EntitySchema } from '@mikro-orm/postgresql'

export class Charge {
  orderId!: string
  cents!: number
}

export const ChargeSchema: EntitySchema<Charge> = new EntitySchema<Charge>({
  class: Charge,
  tableName: 'charges',
  properties: {
    orderId: { type: 'text', primary: true, fieldName: 'order_id' },
    cents: { type: 'integer' },
  },
})
