
func TestWasInjected(t *testing.T) {
	c := newCluster(t)
	ref := c.Disruption("calm", nil)
	if do[bool](c, c.WasInjected, ref) {
		t.Error("one of which nothing was injected was injected")
	}
	c.Must(c.Disruptions.UpdateStatus(t.Context(), ref, func(d *v1beta1.Disruption) {
		now := metav1.Now()
		d.Status.InjectedTime = &now
	}))
	if !do[bool](c, c.WasInjected, ref) {
		t.Error("one with status.injectedTime was not injected")
	}
	ref.UID = "another"
	if do[bool](c, c.WasInjected, ref) {
		t.Error("one that is gone was injected")
	}
}
