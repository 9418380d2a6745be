package v1beta1

// BudgetPolicy is whether PodDisruptionBudgets limit the targets. Empty means Ignore.
type BudgetPolicy string

// The policies.
const (
	BudgetsIgnored   BudgetPolicy = "Ignore"
	BudgetsRespected BudgetPolicy = "Respect"
)

// RespectsBudgets is true for a disruption whose targets PodDisruptionBudgets limit.
func (s DisruptionSpec) RespectsBudgets() bool {
	return s.PodDisruptionBudget == BudgetsRespected && s.Level != LevelNode
}
